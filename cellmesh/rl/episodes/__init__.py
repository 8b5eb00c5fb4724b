"""Episodes that have been played: what is known of them, playing some to see how good a policy is, and their pictures."""
