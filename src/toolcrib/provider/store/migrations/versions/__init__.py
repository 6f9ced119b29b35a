"""The revisions of the store's tables. A revision that was released is never changed."""
