"""Message history: a message travels with its causal past, so no receiver ever waits.

process    a member, the messages that may be missing elsewhere, and acknowledgements
options    timers
"""

from antecede.protocols.message_history.process import MessageHistory

__all__ = ["MessageHistory"]
