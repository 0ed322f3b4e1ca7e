"""The API's routes, one file for each part of the contract."""
