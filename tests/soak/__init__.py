"""Long runs over the whole product: whatever is done to a workspace, its tree is what it should be, byte for byte."""
