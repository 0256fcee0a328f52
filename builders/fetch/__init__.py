"""Downloads the files of sources whose owners offer plain addresses, and checks those that people download."""
