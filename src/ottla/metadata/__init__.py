"""Cluster metadata: documents, the image, the decisions of the controller, and the stores."""
