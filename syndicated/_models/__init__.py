"""The models behind the policies: what is believed of rewards, and the compiled arithmetic of it."""
