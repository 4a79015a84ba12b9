"""Work that takes minutes: resumable runs, their folders, and what they report."""
