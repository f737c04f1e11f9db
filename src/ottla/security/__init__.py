"""Who a client is and what it may do. Pure, except where a module says otherwise."""
