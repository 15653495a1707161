// tests.cpp — what the precompiled headers of tests belong to.
