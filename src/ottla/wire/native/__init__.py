"""Reading in Cython. It is built at install where there is a C compiler; its users choose."""
