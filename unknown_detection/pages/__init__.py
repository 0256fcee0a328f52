"""HTML pages that hold all they need: the template, style and script that our reports share."""
