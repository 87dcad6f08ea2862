"""What tests of distributed engines share: real servers, stores, workers and clients."""
