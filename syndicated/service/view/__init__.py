"""What the pages show: plain functions from the state to numbers and words. There is no HTML here."""
