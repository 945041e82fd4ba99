#!/bin/sh
# Makes the certificates of the tests anew: an authority, and a server that it vouches for. Nothing outside of the tests trusts it.
set -eu
cd "$(dirname "$0")"
openssl ecparam -name prime256v1 -genkey -noout -out authority.key
openssl req -x509 -new -key authority.key -sha256 -days 36500 -subj "/CN=authority of the tests" -out authority.pem \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign"
openssl ecparam -name prime256v1 -genkey -noout -out server.key.pem
openssl req -new -key server.key.pem -subj "/CN=hooks.example.com" -out server.csr
printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\nsubjectAltName=DNS:hooks.example.com\n' >server.ext
openssl x509 -req -in server.csr -CA authority.pem -CAkey authority.key -sha256 -days 36500 -extfile server.ext -out server.pem
openssl x509 -in authority.pem -outform DER -out authority.der
openssl x509 -in server.pem -outform DER -out server.der
openssl pkcs8 -topk8 -nocrypt -in server.key.pem -outform DER -out server.key.der
rm -f authority.key authority.pem authority.srl server.key.pem server.csr server.ext server.pem
