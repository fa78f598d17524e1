"""Every call of the API, once, as generators of requests. Made into methods by `client`, for both kinds of caller."""
