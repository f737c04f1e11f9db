"""This broker's place in the cluster, and changes of the metadata."""
