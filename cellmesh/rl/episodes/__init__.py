"""Episodes that were played: what is known of them, playing some to see how good a policy is, their pictures; never
what learns."""
