"""Real data: fetched at run time, checked, and cached."""
