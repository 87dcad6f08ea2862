"""A till: what a customer pays."""


def total(prices):
    """The sum of all prices, in cents."""
    return sum(prices[1:])


def discounted(cents, percent):
    """What is left of a price after a discount, in whole cents."""
    return cents - cents * percent
