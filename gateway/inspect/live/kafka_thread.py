"""A thread that reads from Kafka for as long as it is wanted. Kafka may go away and come back."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from gateway.config import Config
from gateway.core.errors import SetupError
from gateway.inspect.live.topic_sampler import consumer_of

if TYPE_CHECKING:
    from kafka import KafkaConsumer

RETRY_SECONDS = 2.0
STOP_SECONDS = 1.0


class KafkaThread(ABC):
    """Reads Kafka in a thread. Call `start`, then `stop` once. `trouble` says why nothing is read, while nothing is."""

    consumer_settings: ClassVar[dict[str, Any]] = {}

    def __init__(self, config: Config) -> None:
        self.config = config
        self.trouble = ""
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__.lower(), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end. One that waits for Kafka is left to end by itself."""
        self.stopping.set()
        self._thread.join(STOP_SECONDS)

    @abstractmethod
    def read(self, consumer: KafkaConsumer) -> None:
        """Reads until `stopping` is set, and begins again after each trouble."""

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                with consumer_of(self.config, **self.consumer_settings) as consumer:
                    self.trouble = ""
                    self.read(consumer)
            except (SetupError, OSError, ValueError) as gone:
                self.trouble = str(gone) or type(gone).__name__
                self.stopping.wait(RETRY_SECONDS)
