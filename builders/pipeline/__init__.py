"""The build: from flags and declarations to a finished release folder."""
