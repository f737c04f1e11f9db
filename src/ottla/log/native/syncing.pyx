# cython: language_level=3, embedsignature=True
"""Bringing many files and folders to the disk in one call, without the interpreter's lock.

A thread that calls fdatasync from Python asks for the interpreter's lock after each of them, and
takes it from a loop that is serving clients. Here it asks once.

Rules kept here:
1. The kernel starts writing all files before the first is waited for: what they need of
   the file system's journal is then committed once, and not once for each.
2. Each file is synced, whatever happened to those before it, and its own error number is kept.
"""

import os

from libc.errno cimport EINTR, errno
from libc.stdlib cimport free, malloc

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <fcntl.h>
    #include <unistd.h>

    static void begin_writing(int fd)
    {
    #ifdef SYNC_FILE_RANGE_WRITE
        sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* a hint: fdatasync says what is wrong */
    #endif
    }

    static int open_folder(const char *path)
    {
        return open(path, O_RDONLY | O_CLOEXEC);
    }

    static int sync_data(int fd)
    {
    #ifdef __linux__
        return fdatasync(fd);
    #else
        return fsync(fd);
    #endif
    }
    """
    void begin_writing(int fd) nogil
    int open_folder(const char *path) nogil
    int sync_data(int fd) nogil
    int fsync(int fd) nogil
    int close(int fd) nogil


def sync_all(list descriptors):
    """Sync the data of all of these; returns an error number for each, 0 where there is none."""
    cdef Py_ssize_t count = len(descriptors)
    cdef Py_ssize_t at
    cdef int *fds = <int *>malloc(2 * (count + 1) * sizeof(int))
    if fds == NULL:
        raise MemoryError
    cdef int *errors = fds + count
    try:
        for at in range(count):
            fds[at] = descriptors[at]
        with nogil:
            if count > 1:
                for at in range(count):
                    begin_writing(fds[at])
            for at in range(count):
                errors[at] = 0
                while sync_data(fds[at]) != 0:
                    errors[at] = errno
                    if errors[at] != EINTR:
                        break
                    errors[at] = 0
        return [errors[at] for at in range(count)]
    finally:
        free(fds)


def sync_folders(list paths):
    """Sync the names in all of these folders; returns an error number for each, 0 for none."""
    cdef Py_ssize_t count = len(paths)
    cdef Py_ssize_t at
    cdef list encoded = [os.fsencode(path) for path in paths]
    cdef const char **names = <const char **>malloc((count + 1) * sizeof(char *))
    cdef int *errors = <int *>malloc((count + 1) * sizeof(int))
    try:
        if names == NULL or errors == NULL:
            raise MemoryError
        for at in range(count):
            names[at] = <bytes>encoded[at]
        with nogil:
            for at in range(count):
                errors[at] = sync_folder(names[at])
        return [errors[at] for at in range(count)]
    finally:
        free(names)
        free(errors)


cdef int sync_folder(const char *path) noexcept nogil:
    cdef int error = 0
    cdef int fd = open_folder(path)
    if fd < 0:
        return errno
    while fsync(fd) != 0:
        if errno != EINTR:
            error = errno
            break
    close(fd)
    return error
