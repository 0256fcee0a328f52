"""How results are shown: names, tables and plots; independent of protocols."""
