"""Pure decisions of replication: positions and ISR, followers, leader epochs, the lease."""
