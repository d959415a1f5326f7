//! Secrets recognized by their look. Each module handles one kind. Pure.

pub(crate) mod base64;
pub(crate) mod cards;
pub(crate) mod contacts;
pub(crate) mod home;
pub(crate) mod jwt;
pub(crate) mod looks;
pub(crate) mod pem;
pub(crate) mod providers;
pub(crate) mod tokens;
pub(crate) mod urls;
