# Runs a program under the Linux kernel's Landlock: it and its children can open only what is named here, and connect to
# no TCP port. Rights can only be given up, so no privilege is needed, and root is bound as well.
#
#   perl confine.pl [r:PATH | w:PATH]... -- PROGRAM [ARGUMENT]...
#
# r: read and execute at or below; w: everything at or below. What does not exist is skipped. Where the kernel has no
# Landlock (before 5.19, or not enabled) the program runs without it, and CONFINED_BY stays empty.
#
# In Perl, which is part of every Debian, because Node cannot make system calls.
use strict;
use warnings;
use POSIX ();

# Numbers and bits of linux/landlock.h and linux/prctl.h; those of Landlock are the same on every architecture.
my ($CREATE_RULESET, $ADD_RULE, $RESTRICT_SELF) = (444, 445, 446);
my %PRCTL = (x86_64 => 157, aarch64 => 167);
my ($NO_NEW_PRIVS, $O_PATH, $VERSION, $PATH_BENEATH) = (38, 0x200000, 1, 1);
my ($EXECUTE, $WRITE_FILE, $READ_FILE, $READ_DIR, $REFER, $TRUNCATE) = (1, 2, 4, 8, 0x2000, 0x4000);
my ($CONNECT_TCP, $SCOPE_ABSTRACT_SOCKET) = (2, 1);

my @rules;
while (@ARGV && $ARGV[0] ne '--') { push @rules, shift @ARGV }
shift @ARGV;

my $problem = confine();
$ENV{CONFINED_BY} = $problem eq '' ? 'landlock' : '';
exec { $ARGV[0] } @ARGV or die "cannot run $ARGV[0]: $!\n";

sub confine {
  my $prctl = $PRCTL{(POSIX::uname())[4]} or return 'architecture';
  my $abi = syscall($CREATE_RULESET, 0, 0, $VERSION);
  # The first version forbids to move files between folders, which ClickHouse does.
  return 'kernel' if $abi < 2;
  my $all = 0x3fff | ($abi >= 3 ? $TRUNCATE : 0);
  my @handled = ($all);
  push @handled, $CONNECT_TCP if $abi >= 4;
  push @handled, $SCOPE_ABSTRACT_SOCKET if $abi >= 6;
  my $attributes = pack('Q*', @handled);
  my $ruleset = syscall($CREATE_RULESET, $attributes, length $attributes, 0);
  return 'ruleset' if $ruleset < 0;
  for my $rule (@rules) {
    my ($kind, $path) = $rule =~ /^([rw]):(.*)$/s or die "not understood: $rule\n";
    sysopen(my $handle, $path, $O_PATH) or next;
    my $access = $kind eq 'w' ? $all : $EXECUTE | $READ_FILE | $READ_DIR;
    $access &= $EXECUTE | $WRITE_FILE | $READ_FILE | $TRUNCATE unless -d $path;
    my $beneath = pack('Ql', $access, fileno $handle);
    syscall($ADD_RULE, $ruleset, $PATH_BENEATH, $beneath, 0) == 0 or return 'rule';
  }
  syscall($prctl, $NO_NEW_PRIVS, 1, 0, 0, 0) == 0 or return 'privileges';
  syscall($RESTRICT_SELF, $ruleset, 0) == 0 or return 'restriction';
  return '';
}
