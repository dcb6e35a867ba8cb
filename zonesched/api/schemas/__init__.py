"""What a request may say, one module per URL noun; the OpenAPI document is made from the same classes."""
