"""What scripts/campaigns/hostile gives the program to read: sound files, and what is done to them."""
