"""The texts that fathom ships: facts about memory, units and numbers, told as prose and asked as questions."""
