"""egressd: one process a host, without rights, that alone opens connections to the world for machines.

Started by the machine room; hostd gives it sockets of machines' namespaces and their documents. It decides by
`sandboxes.egress.policy` and knows no machine beyond its id.
"""
