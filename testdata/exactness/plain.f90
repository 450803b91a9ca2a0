! Fortran: large frames, recursion, internal procedures that are passed on, arrays, formatted output.
module shelves
  implicit none
  type :: shelf
    real(8), allocatable :: at(:)
    character(len=8) :: name
  end type
contains
  recursive function depth(n) result(r)
    integer, intent(in) :: n
    real(8) :: r, own(700)
    integer :: i
    do i = 1, 700
      own(i) = real(n * i, 8)
    end do
    if (n > 0) then
      r = depth(n - 1) + sum(own(1:n))
    else
      r = own(1)
    end if
  end function

  subroutine large(n, r)
    integer, intent(in) :: n
    real(8), intent(out) :: r
    real(8) :: own(40000)
    integer :: i
    do i = 1, n
      own(i * 100) = sqrt(real(i, 8))
    end do
    r = own(100) + own(n * 100)
  end subroutine

  function apply(f, x) result(r)
    interface
      function f(x) result(r)
        real(8), intent(in) :: x
        real(8) :: r
      end function
    end interface
    real(8), intent(in) :: x
    real(8) :: r
    r = f(x) + f(x + 1)
  end function

  subroutine fill(s, n)
    type(shelf), intent(inout) :: s
    integer, intent(in) :: n
    integer :: i
    if (.not. allocated(s%at)) allocate(s%at(n))
    s%at = [(real(i, 8), i = 1, n)]
    write (s%name, '(a, i0)') 's', n
  end subroutine
end module

program plain
  use shelves
  implicit none
  type(shelf) :: s
  real(8) :: r, weight
  character(len=40) :: text
  real(8) :: a(6, 6), b(6, 6)
  integer :: i
  weight = 1.5d0
  r = depth(6)
  call large(20, weight)
  r = r + weight + apply(weighed, 2d0)
  do i = 1, 3
    call fill(s, 8)
  end do
  a = 2d0
  b = matmul(a, transpose(a)) + spread(s%at(1:6), 2, 6)
  write (text, '(f12.3, 1x, a, i4)') r + sum(b), s%name, size(s%at)
  print '(a)', trim(text)
contains
  function weighed(x) result(r)
    real(8), intent(in) :: x
    real(8) :: r
    r = x * weight
  end function
end program
