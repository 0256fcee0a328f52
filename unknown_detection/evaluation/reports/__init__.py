"""Reports: figures, tables, plots and one page."""
