"""Many servers as one: names, lists, rules and routes of all of them, from one snapshot."""
