"""Who may do what: every route, every tag, one's own virtual host and another's."""
