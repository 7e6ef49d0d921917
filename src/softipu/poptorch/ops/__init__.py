"""Operations of PopTorch: one file each."""
