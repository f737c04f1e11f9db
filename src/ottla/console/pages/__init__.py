"""One module for each page: what it asks the cluster, and the template that shows it."""
