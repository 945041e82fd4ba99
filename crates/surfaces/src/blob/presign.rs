//! Signed URLs: `<claims>.<HMAC-SHA256 of the claims>`, both in base64url.
//!
//! The key never leaves the surfaces directory. URLs are stateless, and the expiry is part of the signed claims.

use std::fs;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canon::time::Timestamp;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::{Method, ObjectAddress};
use crate::atomic_file::write_atomically;
use crate::call::Tenant;
use crate::error::{Code, SurfaceError};

const FILE: &str = "presign.key";
/// Longer than any token created here. Longer tokens are rejected without decoding.
const MAX_TOKEN_BYTES: usize = 8192;

pub(super) struct Signer([u8; 32]);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    t: String,
    b: String,
    k: String,
    m: String,
    e: u64,
}

impl Signer {
    /// Reads the key of a directory, or creates one.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => {
                let key = bytes.try_into().map_err(|_| {
                    io::Error::new(
                        io::ErrorKind::InvalidData,
                        format!("{} must have 32 bytes", path.display()),
                    )
                })?;
                Ok(Self(key))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut key = [0; 32];
                getrandom::fill(&mut key).map_err(|cause| io::Error::other(cause.to_string()))?;
                write_atomically(&directory.join("presign.key.new"), &path, &key)?;
                Ok(Self(key))
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn sign(
        &self,
        tenant: &Tenant,
        at: &ObjectAddress,
        method: Method,
        expires_at: Timestamp,
    ) -> String {
        let claims = Claims {
            t: tenant.as_str().to_owned(),
            b: at.bucket.clone(),
            k: at.key.clone(),
            m: method.as_str().to_owned(),
            e: expires_at.0,
        };
        let claims = serde_json::to_vec(&claims).expect("strings and numbers always serialize");
        let claims = URL_SAFE_NO_PAD.encode(claims);
        let signature = URL_SAFE_NO_PAD.encode(self.mac(&claims).finalize().into_bytes());
        format!("{claims}.{signature}")
    }

    /// Checks a token at a point in time.
    pub(super) fn verify(
        &self,
        token: &str,
        method: Method,
        now: Timestamp,
    ) -> Result<(Tenant, ObjectAddress), SurfaceError> {
        let claims = self.claims(token).filter(|claims| claims.m == method.as_str());
        let tenant = claims.as_ref().and_then(|claims| Tenant::new(&claims.t).ok());
        let (Some(claims), Some(tenant)) = (claims, tenant) else {
            let message = "signed URL not found; create one with `presign`";
            return Err(SurfaceError::new(Code::BlobPresignNotFound, message));
        };
        if now.0 >= claims.e {
            let message = "the signed URL expired; create a new one with `presign`";
            return Err(SurfaceError::new(Code::BlobPresignExpired, message));
        }
        Ok((tenant, ObjectAddress { bucket: claims.b, key: claims.k }))
    }

    fn claims(&self, token: &str) -> Option<Claims> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (claims, signature) = token.split_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        // Constant time.
        self.mac(claims).verify_slice(&signature).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    fn mac(&self, claims: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC accepts keys of any length");
        mac.update(b"interlock.surfaces.presign.v1\0");
        mac.update(claims.as_bytes());
        mac
    }
}
