"""The file system: its calls, open files, the page cache, the data folder and its checkpoints."""
