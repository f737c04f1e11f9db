"""Faults under load: a real cluster of three, hurt at random for as long as one likes."""
