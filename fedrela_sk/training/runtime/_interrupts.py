"""Whether a KeyboardInterrupt is the user's: Ctrl-C, or a callback's way to say that training should stop."""

import signal
import threading
from contextlib import contextmanager


class Interrupts:
    """Notes SIGINT while it listens; the handler that was there before is called as ever.

    Attributes
    ----------
    came : bool
        Whether the signal came since this was last set to False.
    """

    def __init__(self):
        self.came = False

    @contextmanager
    def listening(self):
        """A block in which signals are noted.

        Python runs handlers in the main thread only: elsewhere no interrupt is the user's, and nothing is done.
        """
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return

        def note(number, frame):
            self.came = True
            return before(number, frame)

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            if signal.getsignal(signal.SIGINT) is note:  # a callback may have set another one
                signal.signal(signal.SIGINT, before)
