"""The template, style and script of all reports, which are single HTML files."""
