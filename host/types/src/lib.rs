//! The words that every part of Flyball shares: kinds, objects, field masks, selectors and plugin descriptions.
