"""Waiting for disks in Cython. Built at install where there is a C compiler; `files` chooses."""
