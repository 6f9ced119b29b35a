"""A bridge that offers one upstream server to clients of any protocol revision."""
