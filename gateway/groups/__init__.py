"""Consumer groups: who reads which partition, and how far everybody has read (HTTP_API, section 7)."""
