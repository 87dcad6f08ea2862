"""`python -m tests.messages`: replace the expected outputs by what is printed now."""

from tests.messages.contracts import CONTRACTS
from tests.messages.workflows import WORKFLOWS

if __name__ == "__main__":
    CONTRACTS.write_texts()
    WORKFLOWS.write_texts()
