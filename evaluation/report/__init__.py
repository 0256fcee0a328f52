"""Reports: figures, tables, plots and a summary page."""
