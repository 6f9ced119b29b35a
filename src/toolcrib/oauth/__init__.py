"""OAuth 2.1: sign in to remote servers, and verify tokens for own servers."""
