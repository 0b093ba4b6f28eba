"""What scripts/plot.py and scripts/report.py are made of: reading a report, naming its cases, drawing them."""
