"""The console: a web interface for a cluster, in a process of its own.

It knows the Kafka protocol and nothing else of a broker, so it serves Apache Kafka too.

    run         the process: listens, samples, serves
    app         routes, and how a handler's answer or failure becomes a page
    safety      hosts, origins, headers, logins
    cluster     clients of one identity, shared by the threads that handle requests
    display     bytes of strangers as safe, bounded text (pure)
    paging      one page of a long list (pure)
    search      the message browser's search, with its budget
    history     24 hours of samples in SQLite
    sampler     what takes the samples
    pages/      one module for each page
"""
