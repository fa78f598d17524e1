"""The pages people open: shells that carry one script and a little data; the front end does the rest."""
