"""Reports: all figures as one table, one pivot of it, four plots and one page."""
